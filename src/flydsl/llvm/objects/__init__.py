"""Object files: reading, linking, archives, PTX."""
