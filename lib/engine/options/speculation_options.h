// What the options of speculative decoding say.
#pragma once

#include <string>

#include "lib/engine/engine_config.h"
#include "lib/model/drafts/draft_head.h"
#include "lib/schedule/speculation/speculation_config.h"

namespace nvllm {

struct SpeculationSettings {
    // Without a method where the files of `draft_model` say which it is.
    SpeculationConfig config;
    // Of a method of the worker: a folder or a name in the cache; empty: none is named.
    std::string draft_model;
    DraftReading reading;  // of a head
};

// Reads the JSON object of --speculative-config and the short forms; without any of them nothing is
// proposed. Throws usage, naming the option or the key, for what cannot be.
SpeculationSettings speculation_settings(const SpeculationOptions& options);

}  // namespace nvllm
