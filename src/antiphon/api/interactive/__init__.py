"""LMDeploy's chat that remembers itself."""
