"""Drives the mock engine of one release of ai-dynamo-runtime: a scheduler and a block pool with real
evictions, without a GPU (see driver.py).

    PYTHONPATH=<its folder> python3.11 mocker.py VERSION NAMESPACE.COMPONENT.ENDPOINT FOLDER

FOLDER takes the few files of a model that the engine wants to see.  It publishes for every rank, and its
workers can be asked what they hold (query.py).
"""

import asyncio
import json
import os
import sys

from driver import Driver
from dynamo._core import DistributedRuntime, EngineType, EntrypointArgs, make_engine, run_input

VOCABULARY = 1000


def write_model(folder):
    """A model nobody could talk to: a configuration, and one word a token."""
    os.makedirs(folder, exist_ok=True)
    special = ["<unk>", "<s>", "</s>"]
    files = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
                        "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
                        "num_hidden_layers": 2, "vocab_size": VOCABULARY, "torch_dtype": "float16",
                        "max_position_embeddings": 8192, "bos_token_id": 1, "eos_token_id": 2},
        "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
        "tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                                  "model_max_length": 8192, "tokenizer_class": "PreTrainedTokenizerFast"},
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
            "post_processor": None, "decoder": None, "pre_tokenizer": {"type": "Whitespace"},
            "added_tokens": [{"id": number, "content": text, "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}
                             for number, text in enumerate(special)],
            "model": {"type": "WordLevel", "unk_token": "<unk>",
                      "vocab": {**{text: number for number, text in enumerate(special)},
                                **{f"w{number}": number for number in range(3, VOCABULARY)}}}}}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(content, out)


class Mocker(Driver):
    def __init__(self, version, endpoint, folder):
        super().__init__()
        self.version = tuple(int(part) for part in version.split("."))
        self.path, self.folder = endpoint, folder

    async def run(self):
        more = {"event_plane": os.environ.get("DYN_EVENT_PLANE")} if self.version >= (1, 1) else {}
        self.runtime = DistributedRuntime(asyncio.get_running_loop(), "file", "tcp", **more)
        await self.serve({})

    async def do_start(self, device, host=0, ranks=2, block=16, seqs=8):
        """An engine of `device` blocks and (1.6) `host` pinned blocks a rank."""
        write_model(self.folder)
        engine = {"num_gpu_blocks": device, "block_size": block, "max_num_seqs": seqs,
                  "speedup_ratio": 10000.0}
        args = {"model_path": self.folder, "model_name": "mock", "endpoint_id": f"dyn://{self.path}"}
        if self.version >= (1, 6):
            engine["emit_kv_events"] = True
            if host:
                engine.update(kv_cache_bytes_per_token=1024, native_host_offload={"num_host_blocks": host})
            args["mocker_engine_args"] = {"engine": engine, "dp_size": ranks,
                                          "dynamo": {"enable_local_indexer": True}}
        else:
            engine.update(dp_size=ranks, enable_local_indexer=True)
            path = os.path.join(self.folder, "engine.json")
            with open(path, "w", encoding="utf-8") as out:
                json.dump(engine, out)
            args["extra_engine_args"] = path
        made = await make_engine(self.runtime, EntrypointArgs(EngineType.Mocker, **args))
        self.serving = asyncio.ensure_future(run_input(self.runtime, f"dyn://{self.path}", made))
        self.client = await self.runtime.endpoint(self.path).client()
        ids = await asyncio.wait_for(self.client.wait_for_instances(), 30)
        return {"worker": ids[0]}

    async def do_request(self, tokens, output=4, rank=0):
        stream = await self.client.generate({
            "token_ids": tokens, "model": "mock", "sampling_options": {}, "output_options": {},
            "stop_conditions": {"max_tokens": output, "ignore_eos": True}, "eos_token_ids": [],
            "annotations": [], "routing": {"dp_rank": rank}, "dp_rank": rank})
        count = 0
        async for _ in stream:
            count += 1
        return {"answers": count}

    async def do_requests(self, requests):
        """Several at once: {"tokens", "output", "rank"} each."""
        done = await asyncio.gather(*(self.do_request(**request) for request in requests))
        return {"answers": [one["answers"] for one in done]}


if __name__ == "__main__":
    asyncio.run(Mocker(*sys.argv[1:4]).run())
