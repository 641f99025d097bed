"""Sites of others: MiniWoB++, and your own."""
