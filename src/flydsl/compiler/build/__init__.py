"""From traced IR to an artifact."""
