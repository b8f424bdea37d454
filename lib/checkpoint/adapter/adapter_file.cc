// Tensors' names, taken apart.
#include "lib/checkpoint/adapter/adapter_file.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/checkpoint/safetensors.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{16} << 30;
constexpr std::string_view kBeginning = "base_model.model.";

enum class Part : uint8_t { a, b, bias, magnitude, embedding_a, embedding_b };

struct Ending {
    std::string_view text;
    Part part;
};
constexpr std::array<Ending, 7> kEndings = {{{".lora_A.weight", Part::a},
                                             {".lora_B.weight", Part::b},
                                             {".lora_B.bias", Part::bias},
                                             {".lora_magnitude_vector", Part::magnitude},
                                             {".lora_magnitude_vector.weight", Part::magnitude},
                                             {".lora_embedding_A", Part::embedding_a},
                                             {".lora_embedding_B", Part::embedding_b}}};

class AdapterReader {
  public:
    explicit AdapterReader(const std::filesystem::path& folder) {
        const std::string config = read_file(adapter_config_path(folder), kMaxConfigBytes);
        adapter_.config = parse_adapter_config(config, adapter_config_path(folder).string());
        adapter_.path = adapter_weights_path(folder);
        adapter_.memory =
            std::make_shared<const std::string>(read_file(adapter_.path, kMaxFileBytes));
        adapter_.digest = fast_digest(adapter_.memory->data(), adapter_.memory->size(),
                                      digest(config.data(), config.size()));
    }

    AdapterFile read() {
        const SafetensorsHeader header = parse_safetensors_header(bytes(), adapter_.path.string());
        for (const SafetensorsEntry& entry : header.entries) take(entry);
        for (auto& [name, module] : modules_) {
            check(module);
            adapter_.modules.push_back(module);
        }
        if (adapter_.modules.empty() && adapter_.replaced.empty()) {
            refuse("the file", "has no tensors of an adapter");
        }
        return std::move(adapter_);
    }

  private:
    [[noreturn]] void refuse(const std::string& what, const std::string& why) const {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} {}", adapter_.path.string(), what, why));
    }

    std::span<const std::byte> bytes() const { return std::as_bytes(std::span(*adapter_.memory)); }

    void take(const SafetensorsEntry& entry) {
        std::string_view name = entry.name;
        if (!name.starts_with(kBeginning)) {
            refuse(entry.name, fmt::format("does not begin with {}", kBeginning));
        }
        name.remove_prefix(kBeginning.size());
        const ConstTensorView view = safetensors_view(entry, bytes(), adapter_.path.string());
        if (view.dtype != DType::f32 && view.dtype != DType::bf16 && view.dtype != DType::f16) {
            refuse(entry.name,
                   fmt::format("is {}; float32, bfloat16 or float16 is expected", view.describe()));
        }
        for (const Ending& ending : kEndings) {
            if (!name.ends_with(ending.text)) continue;
            name.remove_suffix(ending.text.size());
            return take_part(std::string(name), ending.part, view);
        }
        take_replaced(std::string(name), view);
    }

    void take_part(const std::string& name, Part part, const ConstTensorView& view) {
        AdapterModule& module = modules_[name];
        module.name = name;
        switch (part) {
            case Part::embedding_a:
                module.is_embedding = true;
                [[fallthrough]];
            case Part::a:
                module.a = view;
                break;
            case Part::embedding_b:
                module.is_embedding = true;
                [[fallthrough]];
            case Part::b:
                module.b = view;
                break;
            case Part::bias:
                module.bias = view;
                break;
            case Part::magnitude:
                module.magnitude = view;
                break;
        }
    }

    // A bias that an adapted module has, or a tensor of a module that is saved whole. PEFT also
    // stores the unchanged embeddings beside their adapter, as "base_layer".
    void take_replaced(const std::string& stored, const ConstTensorView& view) {
        constexpr std::string_view kBase = ".base_layer";
        std::string name = stored;
        const size_t base = name.rfind(kBase);
        const bool is_base = base != std::string::npos;
        if (is_base) name.erase(base, kBase.size());
        if (is_base && name.ends_with(".weight")) return;
        adapter_.replaced[name] = view;
    }

    void check(AdapterModule& module) const {
        if (module.a.data == nullptr || module.b.data == nullptr) {
            refuse(module.name,
                   fmt::format("has no lora_{}", module.a.data == nullptr ? 'A' : 'B'));
        }
        const int64_t rank = adapter_.config.rank_of(module.name);
        if (module.a.rank != 2 || module.b.rank != 2 || module.a.dim(0) != rank ||
            module.b.dim(1) != rank) {
            refuse(module.name,
                   fmt::format("has lora_A {} and lora_B {}; of rank {}, as the config says, they "
                               "are [{}, in] and [out, {}]",
                               module.a.describe(), module.b.describe(), rank, rank, rank));
        }
        check_vector(module, module.bias, "the bias of lora_B");
        check_vector(module, module.magnitude, "lora_magnitude_vector");
        module.scale = adapter_.config.scale_of(module.name);
    }

    void check_vector(const AdapterModule& module, const ConstTensorView& vector,
                      const char* what) const {
        if (vector.data == nullptr) return;
        if (vector.rank == 1 && vector.dim(0) == module.b.dim(0)) return;
        refuse(module.name, fmt::format("has {} {}; [{}] is expected", what, vector.describe(),
                                        module.b.dim(0)));
    }

    AdapterFile adapter_;
    std::map<std::string, AdapterModule> modules_;
};

}  // namespace

AdapterFile read_adapter(const std::filesystem::path& folder) {
    return AdapterReader(folder).read();
}

}  // namespace nvllm
