"""What a company of its own brings to turngate: one part of each kind, found through entry points."""
