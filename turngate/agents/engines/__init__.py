"""Decoding engines in processes of their own, and how weights and messages travel to them."""
