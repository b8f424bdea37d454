// The table behind parameters.h: a row for each field and each meaning that it has.
#pragma once

#include "lib/server/openai/parameters.h"
#include "lib/server/openai/schema.h"

namespace nvllm::server {

struct Parameter {
    std::string_view name;
    uint32_t calls;         // bits of CallKind
    schema::Json schema;    // its type and range; null besides, which counts as absent
    schema::Json fallback;  // null: none, or it depends
    std::string_view description;
    uint32_t required_in = 0;
    ParameterUse use = ParameterUse::full;

    bool belongs_to(CallKind kind) const { return (calls & static_cast<uint32_t>(kind)) != 0; }
};

std::vector<Parameter> make_parameters(const RequestLimits& limits);

}  // namespace nvllm::server
