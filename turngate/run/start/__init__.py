"""What training begins from: demonstrations, solved examples, a warm start."""
