"""Local servers for the stores: started from wheels, or described for Docker Compose.

One definition serves both.
"""
