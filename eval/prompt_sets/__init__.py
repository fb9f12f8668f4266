"""Prompt sets that papers are measured on: read, checked, never shipped (but for our own `smoke`)."""
