"""Strategies of the governor, a file each."""
