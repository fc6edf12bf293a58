"""What doctor checks: each file looks at one thing and returns findings."""
