"""OpenChatML transcripts as a request and an answer."""
