// LoRA adapters by number: which one a request has, what a worker is told to do with them, and what
// it has done.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/result.h"

namespace nvllm {

// One that the engine knows. A file that is loaded anew, or under another name, has another number.
struct AdapterRef {
    int32_t id = 0;       // 0: none, the model alone
    std::string name;     // that requests call it by
    std::string key;      // of what is cached: another one whenever the adapter computes otherwise
    std::string folder;   // where its files are
    uint64_t digest = 0;  // of them; others under the same name are another adapter

    bool operator==(const AdapterRef&) const = default;
};

// Where an adapter is.
enum class AdapterTier : uint8_t {
    cold,     // on disk
    loading,  // to host memory
    warm,     // in host memory
    placing,  // in a slot soon
    hot,      // in a slot
    failed,   // it could not be loaded
};

// "cold", ...
const char* adapter_tier_name(AdapterTier tier);

enum class AdapterAction : uint8_t {
    load,   // from its folder to host memory
    place,  // from host memory, once it is there, to a slot, from which steps can use it
    drop,   // out of its slot and out of host memory
    clear,  // out of its slot
};

struct AdapterChange {
    AdapterAction action = AdapterAction::load;
    int32_t adapter = 0;
    int32_t slot = 0;         // of place: from 1
    std::string folder = {};  // of load
    uint64_t digest = 0;      // the same

    bool operator==(const AdapterChange&) const = default;
};

enum class AdapterStage : uint8_t {
    loaded,
    placed,
    failed,  // it can be neither loaded nor placed
};

struct AdapterEvent {
    int32_t adapter = 0;
    AdapterStage stage = AdapterStage::loaded;
    uint64_t bytes = 0;               // that were loaded or placed
    double ms = 0.0;                  // that it took, waiting in a queue not counted
    std::optional<Fault> fault = {};  // of failed
};

}  // namespace nvllm
