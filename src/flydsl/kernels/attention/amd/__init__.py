"""Attention with the matrix instructions of AMD's GPUs."""
