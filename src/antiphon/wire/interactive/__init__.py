"""LMDeploy's interactive chat: a client sends only its new turn."""
