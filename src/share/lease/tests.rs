//! Every action in every state, every operation in every state, and the passing of time.
