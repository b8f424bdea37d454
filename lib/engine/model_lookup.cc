// Turns the error of the lookup in lib/checkpoint into a fault.
#include "lib/engine/model_lookup.h"

#include "kernels/error.h"
#include "lib/checkpoint/model_directory.h"

namespace nvllm {

std::optional<Fault> missing_model(const std::string& model) {
    try {
        resolve_model_directory(model);
        return std::nullopt;
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
