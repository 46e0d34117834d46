"""Convert wire formats to `lossless.Message` and back.

Each module of this package speaks one format, with the same few names:

    load(value)           one wire message, or an SDK's reply, as a Message; a list as a list
    load_request(kwargs)  everything a request says: its system text first, then its messages
    dump(context)         the keyword arguments of the SDK call
    dump_message(message) one message exactly as it came (`dump_items` for openai_responses)

What comes in goes out again: the same values, the same keys, in the same order. What a Message has no
field for waits in its `extra`, under the format's name, and is given to no other format. Of what an API would
refuse, `dump_message` keeps everything and `dump` nothing.
"""
