// From stored matrices to one block: slices of this rank, B transposed, biases as what they add.
#include "lib/model/lora/adapter.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "kernels/error.h"
#include "lib/tensor/element.h"

namespace nvllm {
namespace {

constexpr size_t kAlignment = 64;
constexpr std::string_view kBias = ".bias";

[[noreturn]] void refuse(const AdapterFile& file, const std::string& name, const std::string& why) {
    throw Error(ErrorKind::bad_data, fmt::format("{}: {} {}", file.path.string(), name, why));
}

// Of A: inputs that a rank shares; of B and biases: outputs.
TensorSlice slice_of_a(const LinearSpec& part) {
    if (part.axis != ShardAxis::input || part.shard.is_whole()) return {};
    return {part.shard, 1};
}
TensorSlice slice_of_b(const LinearSpec& part) {
    if (part.axis != ShardAxis::output || part.shard.is_whole()) return {};
    return {part.shard, 0, part.pieces};
}

// Where ranks' results are summed, one of them adds biases.
bool adds_bias(const LinearSpec& part) {
    return part.axis != ShardAxis::input || part.shard.rank == 0;
}

Tensor stored_slice(const AdapterFile& file, const ConstTensorView& view,
                    const TensorSlice& slice) {
    if (view.data == nullptr) return {};
    return cut(Tensor::borrow(view, file.memory), slice);
}

// What becomes one PlacedPair. Tensors are this rank's slices.
struct Piece {
    Tensor a;                // [rank, in]
    Tensor b;                // [out, rank]
    Tensor bias;             // [out], of B
    Tensor replacement;      // [out]: instead of the linear's bias
    const Tensor* replaced;  // that bias
    double scale = 1.0;

    bool is_empty() const { return a.empty() && replacement.empty(); }
    int64_t rank() const { return a.empty() ? 0 : a.view().dim(0); }
    DType dtype(DType widest) const {
        if (a.empty() || a.view().dtype != b.view().dtype) return widest;
        return a.view().dtype == DType::f32 ? widest : a.view().dtype;
    }
};

// Piece by piece at offsets that are all known before memory is taken.
class BlockBuilder {
  public:
    BlockBuilder(const AdapterFile& file, const LoraTargets& targets, DType widest)
        : file_(file),
          targets_(targets),
          widest_(widest),
          pieces_(targets.num_parts()),
          pairs_(targets.num_parts()) {
        for (const AdapterModule& module : file.modules) take(module);
        for (const auto& [name, view] : file.replaced) take_replaced(name, view);
        for (const LoraTarget& target : targets.targets()) {
            for (size_t part = 0; part < target.parts.size(); ++part) place(target, part);
        }
    }

    const std::vector<PlacedPair>& pairs() const { return pairs_; }
    std::vector<PlacedTable> tables() const {
        std::vector<PlacedTable> tables;
        for (const Table& table : tables_) tables.push_back(table.placed);
        return tables;
    }
    size_t bytes() const { return bytes_; }

    void fill(std::byte* block) const {
        for (size_t i = 0; i < pairs_.size(); ++i) fill(pieces_[i], pairs_[i], block);
        for (const Table& table : tables_) {
            std::byte* const to = block + table.placed.offset;
            if (table.placed.kind == LoraTable::Kind::embedding_a) {
                copy_floats_transposed(table.values.view(), to, table.placed.dtype);
            } else {
                copy_floats(table.values.view(), to, table.placed.dtype);
            }
        }
    }

  private:
    struct Table {
        PlacedTable placed;
        Tensor values;
    };

    void take(const AdapterModule& module) {
        const auto place = targets_.find(module.name);
        if (!place) return;
        const LoraTarget& target = targets_.targets()[place->target];
        const LinearSpec& part = target.parts[place->part];
        Piece& piece = pieces_[target.first_pair + place->part];
        piece.a = stored_slice(file_, module.a, slice_of_a(part));
        piece.b = stored_slice(file_, module.b, slice_of_b(part));
        if (adds_bias(part)) piece.bias = stored_slice(file_, module.bias, slice_of_b(part));
        piece.scale = module.scale;
    }

    void take_replaced(const std::string& name, const ConstTensorView& view) {
        const bool is_bias = name.ends_with(kBias);
        const auto place = targets_.find(name.substr(0, name.rfind('.')));
        if (!place) return;
        const LoraTarget& target = targets_.targets()[place->target];
        const LinearSpec& part = target.parts[place->part];
        if (is_bias) {
            if (!adds_bias(part)) return;
            Piece& piece = pieces_[target.first_pair + place->part];
            piece.replacement = stored_slice(file_, view, slice_of_b(part));
            piece.replaced = &target.biases[place->part];
            return;
        }
        const bool is_head = targets_.head() == place->target;
        add_table(is_head ? LoraTable::Kind::head : LoraTable::Kind::embedding,
                  stored_slice(file_, view, is_head ? slice_of_b(part) : TensorSlice()), 1.0);
    }

    // As it lies in the block: of embedding_a transposed.
    void add_table(LoraTable::Kind kind, Tensor values, double scale) {
        const ConstTensorView& view = values.view();
        const bool turns = kind == LoraTable::Kind::embedding_a;
        PlacedTable placed{kind, 0, view.dim(turns ? 1 : 0), view.dim(turns ? 0 : 1)};
        placed.dtype = view.dtype == DType::f32 ? widest_ : view.dtype;
        placed.scale = static_cast<float>(scale);
        placed.offset = reserve(view.numel(), placed.dtype);
        tables_.push_back({placed, std::move(values)});
    }

    size_t reserve(int64_t values, DType dtype) {
        const size_t offset = bytes_;
        const size_t bytes = static_cast<size_t>(values) * dtype_bytes(dtype);
        bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        return offset;
    }

    void place(const LoraTarget& target, size_t index) {
        const Piece& piece = pieces_[target.first_pair + index];
        PlacedPair& placed = pairs_[target.first_pair + index];
        if (piece.is_empty()) return;
        const LinearSpec& part = target.parts[index];
        const bool is_embedding =
            targets_.embedding() && &targets_.targets()[*targets_.embedding()] == &target;
        placed.pair.out = part.out;
        placed.pair.first_column = target.first_columns[index];
        placed.pair.rank = static_cast<int32_t>(piece.rank());
        placed.pair.scale = static_cast<float>(piece.scale);
        placed.pair.dtype = piece.dtype(widest_);
        if (piece.rank() > 0) {
            if (is_embedding) {
                add_table(LoraTable::Kind::embedding_a, piece.a, piece.scale);
            } else {
                placed.a = reserve(piece.rank() * part.in, placed.pair.dtype);
            }
            placed.b = reserve(piece.rank() * part.out, placed.pair.dtype);
        }
        if (!piece.bias.empty() || !piece.replacement.empty()) {
            placed.bias = reserve(part.out, DType::f32);
        }
    }

    static void fill(const Piece& piece, const PlacedPair& placed, std::byte* block) {
        const DType dtype = placed.pair.dtype;
        if (placed.a) copy_floats(piece.a.view(), block + *placed.a, dtype);
        if (placed.b) copy_floats_transposed(piece.b.view(), block + *placed.b, dtype);
        if (!placed.bias) return;
        for (int64_t o = 0; o < placed.pair.out; ++o) {
            double bias = 0.0;
            if (!piece.bias.empty()) {
                bias += piece.scale * static_cast<double>(float_at(piece.bias.view(), o));
            }
            if (!piece.replacement.empty()) {
                bias += static_cast<double>(float_at(piece.replacement.view(), o)) -
                        static_cast<double>(float_at(piece.replaced->view(), o));
            }
            set_float_at(block + *placed.bias, DType::f32, o, static_cast<float>(bias));
        }
    }

    const AdapterFile& file_;
    const LoraTargets& targets_;
    DType widest_;
    std::vector<Piece> pieces_;  // by LoraTarget::first_pair and part
    std::vector<PlacedPair> pairs_;
    std::vector<Table> tables_;
    size_t bytes_ = 0;
};

struct FoundPart {
    size_t target;
    const LinearSpec* part;
};

std::optional<FoundPart> find_part(const LoraTargets& targets, const std::string& name) {
    const auto place = targets.find(name);
    if (!place) return std::nullopt;
    return FoundPart{place->target, &targets.targets()[place->target].parts[place->part]};
}

void check_module(const AdapterFile& file, const AdapterModule& module,
                  const LoraTargets& targets) {
    if (module.magnitude.data != nullptr) {
        refuse(file, module.name,
               "has lora_magnitude_vector, though the adapter's config says nothing of DoRA");
    }
    const auto found = find_part(targets, module.name);
    if (!found || module.is_embedding != (targets.embedding() == found->target)) {
        refuse(file, module.name, "is no module of the model that can be adapted");
    }
    const LinearSpec whole = found->part->whole();
    if (module.a.dim(1) == whole.in && module.b.dim(0) == whole.out) return;
    refuse(file, module.name,
           fmt::format("has lora_A {} and lora_B {}; the model's has {} inputs and {} outputs: is "
                       "the adapter of another model?",
                       module.a.describe(), module.b.describe(), whole.in, whole.out));
}

// A bias of a linear, or the matrix of head or embeddings.
void check_replaced(const AdapterFile& file, const std::string& name, const ConstTensorView& view,
                    const LoraTargets& targets) {
    const auto found = find_part(targets, name.substr(0, name.rfind('.')));
    const bool is_bias = name.ends_with(kBias);
    const bool is_embedding = found && targets.embedding() == found->target;
    const bool is_table = found && (is_embedding || targets.head() == found->target);
    if (!found || (is_bias ? is_embedding : !is_table || !name.ends_with(".weight"))) {
        refuse(file, name,
               "replaces a tensor: adapters may have biases of linears, a head and embeddings of "
               "their own");
    }
    const LinearSpec whole = found->part->whole();
    if (is_bias) {
        if (!whole.bias) refuse(file, name, "replaces a bias, and the model's linear has none");
        if (view.rank == 1 && view.dim(0) == whole.out) return;
        refuse(file, name, fmt::format("is {}; [{}] is expected", view.describe(), whole.out));
    }
    const int64_t rows = is_embedding ? whole.in : whole.out;
    const int64_t columns = is_embedding ? whole.out : whole.in;
    if (view.rank == 2 && view.dim(0) == rows && view.dim(1) == columns) return;
    refuse(file, name,
           fmt::format("is {}; [{}, {}] is expected: vocabularies of another size are not computed",
                       view.describe(), rows, columns));
}

}  // namespace

void check_adapter(const AdapterFile& file, const LoraTargets& targets) {
    if (file.config.dora) {
        refuse(file, "use_dora",
               "is true: DoRA is not computed; nvllm-quantize --merge-lora merges the adapter into "
               "its "
               "base model");
    }
    for (const AdapterModule& module : file.modules) check_module(file, module, targets);
    for (const auto& [name, view] : file.replaced) check_replaced(file, name, view, targets);
}

Adapter::Adapter(const AdapterFile& file, const LoraTargets& targets, DType widest) {
    const BlockBuilder builder(file, targets, widest);
    pairs_ = builder.pairs();
    tables_ = builder.tables();
    bytes_ = builder.bytes();
    memory_ = take_pages(bytes_);
    if (memory_ == nullptr) {
        throw Error(ErrorKind::does_not_fit,
                    fmt::format("{}: no memory for {} bytes", file.path.string(), bytes_));
    }
    builder.fill(memory_.get());
}

std::vector<ops::LoraPair> Adapter::pairs_at(const std::byte* base) const {
    std::vector<ops::LoraPair> pairs;
    pairs.reserve(pairs_.size());
    for (const PlacedPair& placed : pairs_) {
        ops::LoraPair& pair = pairs.emplace_back(placed.pair);
        if (placed.a) pair.a = base + *placed.a;
        if (placed.b) pair.b = base + *placed.b;
        if (placed.bias) pair.bias = reinterpret_cast<const float*>(base + *placed.bias);
    }
    return pairs;
}

std::vector<LoraTable> Adapter::tables_at(const std::byte* base, int32_t slot,
                                          Device device) const {
    std::vector<LoraTable> tables;
    for (const PlacedTable& placed : tables_) {
        tables.push_back(
            {placed.kind,
             slot,
             {base + placed.offset, placed.dtype, {placed.rows, placed.columns}, device},
             placed.scale});
    }
    return tables;
}

}  // namespace nvllm
