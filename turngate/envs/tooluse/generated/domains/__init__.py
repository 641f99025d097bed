"""Domains: entities, rules and tools declared in Python, with a customer to talk with and endless tasks."""
