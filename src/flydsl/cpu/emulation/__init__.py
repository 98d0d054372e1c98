"""What GPU instructions mean, for the CPU."""
