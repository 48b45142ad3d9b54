"""The signature of a plan, reckoned from docs/formats.md alone."""
import hashlib
import json


def texts_of(value):
    """What is signed of a JSON value, as docs/formats.md says."""
    if isinstance(value, dict):
        return [str(len(value))] + [text for key, member in value.items() for text in [key] + texts_of(member)]
    if isinstance(value, list):
        return [str(len(value))] + [text for member in value for text in texts_of(member)]
    if isinstance(value, float):
        return [f"{value:.9f}".rstrip("0").rstrip(".")]
    return [value if isinstance(value, str) else json.dumps(value)]


def signed(plan):
    """A plan with its signature, as docs/formats.md says."""
    texts = ["kvtier-plan 2", str(plan["created_ms"]), str(plan["base_version"]), plan["base_digest"], plan["policy_digest"]]
    texts += texts_of(plan["summary"])
    for moves in plan["moves"]:
        texts += [moves[key] for key in ("verb", "gateway", "tier", "namespace", "rule")] + moves["blocks"]
    data = b"".join(b"%d:%s\n" % (len(text.encode()), text.encode()) for text in texts)
    return {**plan, "digest": hashlib.sha256(data).hexdigest()}
