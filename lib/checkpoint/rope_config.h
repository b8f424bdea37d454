// RoPE settings out of config.json, in its old form (rope_theta, rope_scaling) and its new one
// (rope_parameters).
#pragma once

#include <string>
#include <vector>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

// What a reader of RoPE settings has to know of the model.
struct RopeModel {
    const FamilyDefaults& family;
    int64_t max_positions = 0;
    int64_t head_dim = 0;
};

// The settings of one kind of layer, whose theta is that of the scaling, else `theta`. `layer_type`
// ("full_attention", "sliding_attention") chooses among settings nested by layer type. Keys that
// are not used go to `unused`, as "rope_scaling.key". Throws bad_data for an unknown kind, a
// missing factor or a value outside sane limits.
RopeConfig read_rope_config(const ConfigFields& fields, const char* layer_type, double theta,
                            const RopeModel& model, std::vector<std::string>& unused);

// Where both forms are there, leaves the one that counts: rope_scaling, which was added to a
// file that has rope_parameters. Where settings are nested by layer type, it is merged into those
// of full attention, or of all layers as the family has it. Returns a note for the user where
// something is lost; empty: nothing is.
std::string choose_rope_form(const FamilyDefaults& family, nlohmann::json& settings);

}  // namespace nvllm
