"""From a decorated function to traced IR."""
