"""Where the language meets the IR: the trace in progress, and the modules that need xDSL."""
