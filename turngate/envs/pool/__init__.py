"""Many environments that one event loop runs side by side, in threads or in processes."""
