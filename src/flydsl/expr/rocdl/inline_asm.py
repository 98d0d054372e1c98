"""Conversions at the path where FlyDSL has them; no assembly is written here."""

from __future__ import annotations

from .conversions import cvt_off_f32_i4, cvt_pk_bf16_f32

__all__ = ["cvt_off_f32_i4", "cvt_pk_bf16_f32"]
