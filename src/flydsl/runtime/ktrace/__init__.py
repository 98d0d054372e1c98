"""Traces of kernels: the memory that launches record into, what is read from it, and the forms it is shown in."""
