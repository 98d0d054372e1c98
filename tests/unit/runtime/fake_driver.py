"""A recording driver library, generated in C from the driver table: every entry logs its operation and arguments."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

from flydsl.runtime.driver_table import ENTRIES, Column

PRELUDE = r"""
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef uint64_t u64;
static char log_text[1 << 20];
static char fail_name[64];
static int fail_code, current, last_error;
static u64 next_handle = 0x10000, context_now;
const char *fake_log(void) { return log_text; }
void fake_clear(void) { log_text[0] = 0; }
void fake_fail(const char *op, int code) { strncpy(fail_name, op, 63); fail_code = code; }
void fake_last_error(int code) { last_error = code; }
static int attribute(int id) {
  switch (id) {
    case 10: case 87: return 32; case 16: return 4; case 1: return 1024; case 39: return 2048;
    case 2: case 3: return 1024; case 4: return 64; case 5: return 2147483647; case 6: case 7: return 65535;
    case 8: return 49152; case 97: return 232448; case 75: return 9; case 76: return 0;
    case 120: case 95: case 115: case 83: case 41: case 31: return 1;
    default: return id;
  }
}
static void put32(char *base, int offset, int value) { memcpy(base + offset, &value, 4); }
static void put64(char *base, int offset, u64 value) { memcpy(base + offset, &value, 8); }
static void properties(char *p) {
  memset(p, 0, 1472);
  strcpy(p, "Fake MI300X"); memset(p + 256, 0xab, 16); put64(p, 288, 1ull << 34); put64(p, 296, 65536);
  put32(p, 304, 65536); put32(p, 308, 64); put32(p, 320, 1024); put32(p, 324, 1024); put32(p, 328, 1024);
  put32(p, 332, 1024); put32(p, 336, 2147483647); put32(p, 340, 65535); put32(p, 344, 65535); put32(p, 388, 304);
  put32(p, 584, 5); put32(p, 588, 6); put32(p, 592, 0); put32(p, 624, 2048); put64(p, 640, 65536);
  strcpy(p + 1160, "gfx942:sramecc+:xnack-");
}
static void words(const char *name, int *at, int count) {
  char *end = log_text + strlen(log_text);
  end += sprintf(end, "%s", name);
  for (int i = 0; i < count; i++) end += sprintf(end, " %x", at[i]);
  sprintf(end, "\n");
}
static int hit(const char *op, u64 *a, int count) {
  char *end = log_text + strlen(log_text);
  end += sprintf(end, "%s", op);
  for (int i = 0; i < count; i++) end += sprintf(end, " %llx", (unsigned long long)a[i]);
  sprintf(end, "\n");
  if (fail_code && !strcmp(op, fail_name)) { int code = fail_code; fail_code = 0; return code; }
#define IS(name) else if (!strcmp(op, name))
  if (0) {}
  IS("device_count") *(int *)a[0] = 2;
  IS("device_get") *(int *)a[0] = (int)a[1];
  IS("device_name") strcpy((char *)a[0], "Fake H200");
  IS("device_uuid") memset((char *)a[0], 0xcd, 16);
  IS("device_pci_bus_id") strcpy((char *)a[0], "0000:01:00.0");
  IS("device_total_mem") *(u64 *)a[0] = 1ull << 34;
  IS("device_attribute") *(int *)a[0] = attribute((int)a[1]);
  IS("device_properties") properties((char *)a[0]);
  IS("set_device") current = (int)a[0];
  IS("get_device") *(int *)a[0] = current;
  IS("context_retain") *(u64 *)a[0] = 0xc0 + a[1];
  IS("context_set") context_now = a[0];
  IS("context_get") *(u64 *)a[0] = context_now;
  IS("context_device") *(int *)a[0] = (int)(context_now - 0xc0);
  IS("context_push") { current = (int)context_now; context_now = a[0]; }
  IS("context_pop") context_now = (u64)current;
  IS("stream_context") *(u64 *)a[1] = a[0] >= 0x900000 ? 0xc1 : 0xc0;
  IS("stream_device") *(int *)a[1] = a[0] >= 0x900000;
  IS("memory_info") { *(u64 *)a[0] = 1000; *(u64 *)a[1] = 2000; }
  IS("driver_version") *(int *)a[0] = 13000;
  IS("runtime_version") *(int *)a[0] = 70100;
  IS("stream_is_capturing") *(int *)a[1] = 0;
  IS("capture_end") *(u64 *)a[1] = next_handle += 0x1000;
  IS("event_elapsed") *(float *)a[0] = 1.5f;
  IS("function_attribute") *(int *)a[0] = 100 + (int)a[1];
  IS("module_global") { *(u64 *)a[0] = 0x5000; *(u64 *)a[1] = 64; }
  IS("occupancy") *(int *)a[0] = 3;
  IS("can_access_peer") *(int *)a[0] = 1;
  IS("vmm_granularity") *(u64 *)a[0] = 1 << 21;
  IS("vmm_create") { words("vmm_properties", (int *)a[2], 8); *(u64 *)a[0] = next_handle += 0x1000; }
  IS("vmm_export") *(int *)a[0] = open("/dev/null", 0);
  IS("vmm_access") for (int i = 0; i < (int)a[3]; i++) words("vmm_right", (int *)a[2] + 3 * i, 3);
  IS("pointer_attribute") { if (a[2] == 1) return 1; *(int *)a[0] = 1; }
  IS("last_error") { int code = last_error; last_error = 0; return code; }
  IS("cuda_error_name") *(const char **)a[1] = "FAKE_ERROR";
  IS("cuda_error_text") *(const char **)a[1] = "a fake error";
  IS("module_load_ex") { *(u64 *)a[0] = next_handle += 0x1000; }
  else if (!strcmp(op, "alloc") || !strcmp(op, "alloc_async") || !strcmp(op, "alloc_host") ||
           !strcmp(op, "stream_create") || !strcmp(op, "event_create") || !strcmp(op, "module_load") ||
           !strcmp(op, "vmm_import") || !strcmp(op, "vmm_reserve") ||
           !strcmp(op, "module_function") || !strcmp(op, "graph_instantiate"))
    *(u64 *)a[0] = next_handle += 0x1000;
  return 0;
}
"""


_C_TYPES: dict[Any, str] = {ctypes.c_int: "uint32_t", ctypes.c_uint: "uint32_t", ctypes.c_ubyte: "uint8_t"}
"""C types of the arguments that are not 64 bits wide."""


def source(column: Column, without: tuple[str, ...] = ()) -> str:
    """C text of a library with every symbol of a column but those in `without`."""
    parts = [PRELUDE]
    for op, entry in ENTRIES.items():
        symbols = entry.hip if column == "hip" else entry.cuda
        count = len(entry.args)
        for symbol in symbols:
            if symbol in without:
                continue
            if entry.result is ctypes.c_char_p:
                parts.append(f'const char *{symbol}(int code) {{ return "hipErrorFake"; }}')
                continue
            params = ", ".join(f"{_C_TYPES.get(kind, 'u64')} a{i}" for i, kind in enumerate(entry.args)) or "void"
            values = ", ".join(f"a{i}" for i in range(count)) or "0"
            parts.append(f'int {symbol}({params}) {{ u64 a[] = {{{values}}}; return hit("{op}", a, {count}); }}')
    return "\n".join(parts)


class FakeDriver:
    """The compiled library and its controls."""

    def __init__(self, path: Path):
        self.path = path
        self._library: Any = ctypes.CDLL(str(path))
        self._library.fake_log.restype = ctypes.c_char_p

    def calls(self) -> list[tuple[str, tuple[int, ...]]]:
        """Operations called since the last time, with their raw arguments."""
        text = self._library.fake_log().decode()
        self._library.fake_clear()
        rows = (line.split() for line in text.splitlines())
        return [(row[0], tuple(int(word, 16) for word in row[1:])) for row in rows]

    def names(self) -> list[str]:
        return [name for name, _ in self.calls()]

    def fail(self, operation: str, code: int) -> None:
        """Let the next call of an operation return a status."""
        self._library.fake_fail(operation.encode(), code)

    def set_last_error(self, code: int) -> None:
        self._library.fake_last_error(code)


def build(folder: Path, column: Column, without: tuple[str, ...] = ()) -> FakeDriver:
    """Compile the library with the C compiler on the search path."""
    # Not the vendor's name: it stays mapped, and later tests of this process would take it for a real driver.
    text, library = folder / "driver.c", folder / f"libfake{column}.so"
    text.write_text(source(column, without))
    subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-w", str(text), "-o", str(library)], check=True)
    return FakeDriver(library)
