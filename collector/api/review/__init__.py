"""What people say, and judges measured against it, over HTTP."""
