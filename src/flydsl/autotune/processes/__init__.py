"""Candidates in other processes: the call as bytes, children with a time limit, workers of a cluster."""
