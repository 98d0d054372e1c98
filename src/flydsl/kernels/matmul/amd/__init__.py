"""Matrix products on AMD GPUs: one kernel for all their matrix instructions."""
