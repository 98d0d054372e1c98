"""What a kernel will take, computed from what the compiler knows of it: no GPU is needed, none is asked."""
