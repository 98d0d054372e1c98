"""What is memory of this process, and what is not."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from flydsl.runtime.host_memory import is_mapped


def test_memory_that_is_mapped():
    room = ctypes.create_string_buffer(3 * mmap.PAGESIZE)
    first = ctypes.addressof(room)
    for at in (first, first + 1, first + mmap.PAGESIZE, first + 3 * mmap.PAGESIZE - 1):
        assert is_mapped(at)


def test_a_page_that_was_given_back():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # A hole of one page between two that stay: what else maps memory here asks for more.
    start = libc.mmap(None, 3 * mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0)
    middle = start + mmap.PAGESIZE
    try:
        assert is_mapped(middle)
        assert libc.munmap(middle, mmap.PAGESIZE) == 0
        assert not is_mapped(middle) and not is_mapped(middle + mmap.PAGESIZE - 1)
        assert is_mapped(middle - 1) and is_mapped(middle + mmap.PAGESIZE)
    finally:
        libc.munmap(start, 3 * mmap.PAGESIZE)


@pytest.mark.parametrize("address", [0, -1, 1, 1 << 63, 1 << 64])
def test_numbers_that_are_no_address(address: int):
    assert not is_mapped(address)
