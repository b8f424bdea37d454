// Where the values of each module lie among the stored tensors, and one tensor at a time anew.
#include "lib/quantize/adapter_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/host/cpu_placement.h"
#include "lib/base/json.h"
#include "lib/base/unused_keys.h"
#include "lib/checkpoint/adapter/adapter_file.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/quantize/hooked_model.h"
#include "lib/tensor/element.h"

namespace nvllm::quantize {
namespace {

constexpr std::string_view kWeightTensor = ".weight";
constexpr std::string_view kBiasTensor = ".bias";

// Where a matrix [out, in], or a vector [out], lies in a stored tensor; in elements.
struct StoredPlace {
    std::string tensor;  // of the output
    std::string source;  // the tensor that it is in the model
    int64_t out = 0;
    int64_t in = 1;
    int64_t first = 0;
    int64_t out_stride = 1;
    int64_t in_stride = 0;
    // Stored [in, out], and a file that replaces it has it so too: an embedding, GPT-2's Conv1D.
    bool is_turned = false;

    int64_t at(int64_t o, int64_t i) const { return first + o * out_stride + i * in_stride; }
};

// What becomes of the values at a place: `values` instead of them, or what a module adds.
struct Change {
    StoredPlace place;
    const AdapterModule* module = nullptr;
    ConstTensorView values;
};

struct ChangedTensor {
    std::string source;
    std::vector<Change> changes;
};

// Row by row; `a` is float32 [rank, in].
class MergedRow {
  public:
    MergedRow(const AdapterModule& module, const std::vector<float>& a, int64_t in)
        : module_(module), a_(a), sums_(static_cast<size_t>(in)) {}

    // W + scale B A of output `o`, and by DoRA as long as its magnitude says (Liu et al. 2024).
    void merge(const StoredPlace& place, int64_t o, DType dtype, std::byte* values) {
        std::fill(sums_.begin(), sums_.end(), 0.0f);
        const int64_t rank = module_.a.dim(0);
        for (int64_t r = 0; r < rank; ++r) {
            const float factor = float_at(module_.b, o * rank + r);
            const float* const row = a_.data() + r * place.in;
            for (int64_t i = 0; i < place.in; ++i) sums_[static_cast<size_t>(i)] += factor * row[i];
        }
        double squares = 0.0;
        for (int64_t i = 0; i < place.in; ++i) {
            float& sum = sums_[static_cast<size_t>(i)];
            sum = float_at(values, dtype, place.at(o, i)) + static_cast<float>(module_.scale) * sum;
            squares += static_cast<double>(sum) * sum;
        }
        const float length =
            module_.magnitude.data == nullptr
                ? 1.0f
                : float_at(module_.magnitude, o) / static_cast<float>(std::sqrt(squares));
        for (int64_t i = 0; i < place.in; ++i) {
            set_float_at(values, dtype, place.at(o, i), length * sums_[static_cast<size_t>(i)]);
        }
    }

  private:
    const AdapterModule& module_;
    const std::vector<float>& a_;
    std::vector<float> sums_;
};

}  // namespace

class AdapterMerge::Plan {
  public:
    Plan(const MergeOptions& options, ThreadPool& threads)
        : file_(read_adapter(options.adapter)),
          threads_(threads),
          model_(options.model, threads, std::nullopt, &targets_) {
        if (model_.quantization() != nullptr) {
            throw Error(
                ErrorKind::bad_data,
                fmt::format("{}: is quantized ({}): merge the adapter into the dense model, "
                            "and quantize what comes of it",
                            options.model.string(), model_.quantization()->format()));
        }
        for (const std::string_view name : model_.checkpoint().names()) {
            names_.emplace(module_key(name), name);
        }
        for (const auto& [name, view] : file_.replaced) replace(name, view);
        for (const AdapterModule& module : file_.modules) add(module);
        keep_head();
    }

    const AdapterFile& file() const { return file_; }
    const HookedModel& model() const { return model_; }
    const std::map<std::string, ChangedTensor>& changed() const { return changed_; }
    bool unties() const { return unties_; }

    std::vector<NamedTensor> tensors(size_t index) const {
        const auto& [name, changed] = *std::next(changed_.begin(), static_cast<ptrdiff_t>(index));
        const ConstTensorView stored = *model_.checkpoint().find(changed.source);
        Tensor tensor = Tensor::allocate(stored, {});
        std::byte* const values = tensor.mutable_view().as<std::byte>();
        std::memcpy(values, stored.data, tensor.bytes());
        for (const Change& change : changed.changes) apply(change, stored.dtype, values);
        return {{name, tensor}};
    }

    uint64_t output_bytes() const {
        uint64_t bytes = model_.checkpoint().data_bytes();
        for (const auto& [name, changed] : changed_) {
            if (model_.checkpoint().find(name)) continue;
            const ConstTensorView view = *model_.checkpoint().find(changed.source);
            bytes += static_cast<uint64_t>(view.numel()) * dtype_bytes(view.dtype);
        }
        return bytes;
    }

  private:
    [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {} {}", file_.path.string(), name, why));
    }

    // Of a tensor of the adapted model by its name ("model.layers.0.mlp.up_proj.weight").
    StoredPlace locate(const std::string& name) const {
        const bool is_weight = name.ends_with(kWeightTensor);
        const std::string module = name.substr(0, name.rfind('.'));
        const auto found = targets_.find(module);
        if (found && (is_weight || name.ends_with(kBiasTensor))) {
            const LoraTarget& target = targets_.targets()[found->target];
            const LinearSpec& part = target.parts[found->part];
            const bool is_embedding = targets_.embedding() == found->target;
            StoredPlace place;
            place.tensor = part.name + std::string(is_weight ? kWeightTensor : kBiasTensor);
            place.source = is_weight ? part.weight() : place.tensor;
            place.out = part.out;
            place.in = is_weight ? part.in : 1;
            const MatrixOrder order = is_embedding ? MatrixOrder::in_out : part.order;
            if (!set_strides(place, is_weight ? order : MatrixOrder::out_in)) {
                refuse(name, "is no tensor of the model");
            }
            return place;
        }
        // The engine adapts no such module; it is in the checkpoint all the same.
        const auto stored = names_.find(module_key(name));
        if (stored == names_.end()) refuse(name, "is no tensor of the model");
        const ConstTensorView view = *model_.checkpoint().find(stored->second);
        StoredPlace place;
        place.tensor = place.source = stored->second;
        place.out = view.dim(0);
        place.in = view.numel() / view.dim(0);
        set_strides(place, MatrixOrder::out_in);
        return place;
    }

    // False: the model has no such tensor.
    bool set_strides(StoredPlace& place, MatrixOrder order) const {
        if (const StoredPart* const part = model_.stored_part(place.source)) {
            const ConstTensorView stack = *model_.checkpoint().find(part->whole);
            place.tensor = place.source = part->whole;
            place.first = part->matrix * stack.stride(0);
            const int64_t row = stack.rank > 2 ? stack.stride(0) / stack.dim(1) : 1;
            place.first += part->first * (part->is_turned ? 1 : row);
            place.out_stride = part->step * (part->is_turned ? 1 : row);
            place.in_stride = part->is_turned ? row : 1;
            return true;
        }
        place.out_stride = order == MatrixOrder::out_in ? place.in : 1;
        place.in_stride = order == MatrixOrder::out_in ? 1 : place.out;
        place.is_turned = order == MatrixOrder::in_out;
        return model_.checkpoint().find(place.source).has_value();
    }

    void note(Change change, const std::string& name) {
        const DType dtype = model_.checkpoint().find(change.place.source)->dtype;
        if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
            refuse(name, fmt::format("would change {}, which is stored as {}", change.place.source,
                                     dtype_name(dtype)));
        }
        ChangedTensor& changed = changed_[change.place.tensor];
        changed.source = change.place.source;
        unties_ = unties_ || changed.source != change.place.tensor;
        changed.changes.push_back(std::move(change));
    }

    void replace(const std::string& name, const ConstTensorView& view) {
        Change change{locate(name), nullptr, view};
        if (change.place.is_turned) {
            std::swap(change.place.in, change.place.out);
            std::swap(change.place.in_stride, change.place.out_stride);
        }
        const StoredPlace& place = change.place;
        if (view.numel() != place.out * place.in || view.dim(0) != place.out) {
            refuse(name, fmt::format("is {}; the model's has {} x {} values", view.describe(),
                                     place.out, place.in));
        }
        note(std::move(change), name);
    }

    void add(const AdapterModule& module) {
        if (file_.config.dora != (module.magnitude.data != nullptr)) {
            refuse(module.name, file_.config.dora
                                    ? "has no lora_magnitude_vector, and use_dora is true"
                                    : "has lora_magnitude_vector, and use_dora is not true");
        }
        if (module.is_embedding && module.magnitude.data != nullptr) {
            refuse(module.name, "is an embedding with DoRA, which cannot be merged");
        }
        StoredPlace place = locate(module.name + std::string(kWeightTensor));
        if (module.a.dim(1) != place.in || module.b.dim(0) != place.out) {
            refuse(module.name,
                   fmt::format("has lora_A {} and lora_B {}; the model's has {} inputs and {} "
                               "outputs: is the adapter of another model?",
                               module.a.describe(), module.b.describe(), place.in, place.out));
        }
        note({std::move(place), &module, {}}, module.name);
        if (module.bias.data == nullptr) return;
        note({locate(module.name + std::string(kBiasTensor)), &module, module.bias}, module.name);
    }

    // Where the embedding changes and the head is the same matrix, the head stays what it was.
    void keep_head() {
        if (!targets_.head()) return;
        const LinearSpec& head = targets_.targets()[*targets_.head()].parts.front();
        if (head.tied_to.empty() || !changed_.contains(head.tied_to)) return;
        changed_[head.name + std::string(kWeightTensor)].source = head.tied_to;
        unties_ = true;
    }

    void apply(const Change& change, DType dtype, std::byte* values) const {
        const StoredPlace& place = change.place;
        if (change.values.data != nullptr) return apply_values(change, dtype, values);
        std::vector<float> a(static_cast<size_t>(change.module->a.numel()));
        for (size_t i = 0; i < a.size(); ++i) {
            a[i] = float_at(change.module->a, static_cast<int64_t>(i));
        }
        constexpr int64_t kGrain = 16;
        threads_.parallel_for(place.out, kGrain, [&](int64_t begin, int64_t end, int) {
            MergedRow row(*change.module, a, place.in);
            for (int64_t o = begin; o < end; ++o) row.merge(place, o, dtype, values);
        });
    }

    // Instead of what is there, or of a module's own bias: beside it.
    static void apply_values(const Change& change, DType dtype, std::byte* values) {
        const StoredPlace& place = change.place;
        for (int64_t o = 0; o < place.out; ++o) {
            for (int64_t i = 0; i < place.in; ++i) {
                float value = float_at(change.values, o * place.in + i);
                if (change.module != nullptr) {
                    value = float_at(values, dtype, place.at(o, i)) +
                            static_cast<float>(change.module->scale) * value;
                }
                set_float_at(values, dtype, place.at(o, i), value);
            }
        }
    }

    AdapterFile file_;
    ThreadPool& threads_;
    LoraTargets targets_;
    HookedModel model_;
    std::map<std::string, std::string> names_;  // of the checkpoint's tensors, by module_key()
    std::map<std::string, ChangedTensor> changed_;
    bool unties_ = false;
};

AdapterMerge::AdapterMerge(MergeOptions options)
    : options_(std::move(options)),
      threads_(options_.num_threads > 0 ? options_.num_threads : default_num_threads()),
      plan_(std::make_unique<Plan>(options_, threads_)) {}

AdapterMerge::~AdapterMerge() = default;

size_t AdapterMerge::num_modules() const { return plan_->file().modules.size(); }
size_t AdapterMerge::num_changed() const { return plan_->changed().size(); }
std::string AdapterMerge::note() const {
    return unused_keys_note(adapter_config_path(options_.adapter).string(),
                            plan_->file().config.unknown_keys);
}
bool AdapterMerge::unties() const { return plan_->unties(); }
uint64_t AdapterMerge::output_bytes() const { return plan_->output_bytes(); }

WrittenSizes AdapterMerge::run() {
    const nlohmann::ordered_json identity = {{"schema", "nvllm-quantize.merge/1"},
                                             {"adapter_digest", plan_->file().digest}};
    const Journal journal(options_.output, write_json(identity) + "\n", options_.interrupted);
    Replacement replacement;
    for (const auto& [name, changed] : plan_->changed()) replacement.replaced.insert(name);
    replacement.num_blocks = plan_->changed().size();
    replacement.tensors = [&](size_t block) { return plan_->tensors(block); };
    const std::filesystem::path folder = journal.fresh_output_folder();
    const WrittenSizes sizes =
        write_weights(plan_->model().checkpoint(), replacement, folder, options_.shard_bytes);
    write_config(options_.model, folder, std::nullopt, plan_->unties());
    copy_companions(options_.model, folder);
    journal.publish();
    return sizes;
}

}  // namespace nvllm::quantize
