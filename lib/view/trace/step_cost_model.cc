// The step model as a file.
#include "lib/view/trace/step_cost_model.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"

namespace nvllm::view {

StepModel read_step_model(const std::filesystem::path& path, StepModel model) {
    const auto json = parse_json(read_file(path, 1 << 16), path.string());
    const std::pair<const char*, double*> members[] = {
        {"fixed_ms", &model.fixed_ms},
        {"prefill_token_ms", &model.prefill_token_ms},
        {"prefill_position_ms", &model.prefill_position_ms},
        {"decode_sequence_ms", &model.decode_sequence_ms}};
    if (!json.is_object()) throw Error(ErrorKind::bad_data, path.string() + ": is not an object");
    for (const auto& [key, value] : json.items()) {
        const auto* member =
            std::ranges::find(members, key, &std::pair<const char*, double*>::first);
        const double number = value.is_number() ? value.get<double>() : -1.0;
        if (member == std::end(members) || !std::isfinite(number) || number < 0.0) {
            throw Error(ErrorKind::bad_data,
                        path.string() + ": \"" + key +
                            "\" is not one of fixed_ms, prefill_token_ms, prefill_position_ms, "
                            "decode_sequence_ms with a number from 0 on");
        }
        *member->second = number;
    }
    return model;
}

}  // namespace nvllm::view
