"""POST /v1/encode, LMDeploy's way to tokenize. No engine works for it, so it waits for no slot."""

from __future__ import annotations

from antiphon.api.reading import reading_of
from antiphon.http.post import Post, PostRoute

from .encoding import EncodeRequest, encode_texts


class Encode(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(EncodeRequest)
        model = await post.model(wire.model)
        await post.send_json(await post.off_loop(lambda: encode_texts(wire, model, reading_of(post))))
