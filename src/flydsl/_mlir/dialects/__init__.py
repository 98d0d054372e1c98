"""The modules of the dialects: every op class and builder function, made when it is asked for."""
