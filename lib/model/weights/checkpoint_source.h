// Weights of a checkpoint, as they lie in its mapped files.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/checkpoint/checkpoint.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// What is read: for a plan, headers are enough.
enum class CheckpointUse : uint8_t { headers, values };

// Parts of stored tensors by the names they are read by.
class NamedParts {
  public:
    void add(const std::string& name, const StoredPart& part) {
        parts_.insert_or_assign(name, part);
    }
    // Null: there is none of this name.
    const StoredPart* find(const std::string& name) const;
    // All that are called "LINEAR.something".
    std::vector<StoredPart> of(const std::string& linear) const;
    // Whether reading it copies it out of the file.
    bool is_copied(const std::string& name) const {
        const StoredPart* const part = find(name);
        return part != nullptr && part->is_scattered();
    }

  private:
    std::map<std::string, StoredPart, std::less<>> parts_;
};

class CheckpointSource : public WeightSource {
  public:
    CheckpointSource(Checkpoint checkpoint, DType compute_type, ThreadPool& threads,
                     CheckpointUse use = CheckpointUse::values, const ComputeDevice& device = {})
        : WeightSource(compute_type, threads, device),
          checkpoint_(std::move(checkpoint)),
          use_(use) {}

    bool has(const std::string& name) const override;
    std::vector<std::string_view> names() const override { return checkpoint_.names(); }
    Tensor read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                      WeightRole role, const TensorSlice& slice) override;
    Tensor read_stored(const std::string& name, std::initializer_list<int64_t> shape,
                       std::initializer_list<DType> types, const TensorSlice& slice) override;
    Tensor read_stored_flat(const std::string& name, int64_t count,
                            std::initializer_list<DType> types, const TensorSlice& slice) override;
    void release_stored() override;
    bool has_shape(const std::string& name, std::initializer_list<int64_t> shape) const override;
    int64_t count_of(const std::string& name) const override;
    bool keeps_files() const override { return true; }
    bool keeps_dense(const std::string& linear) const override;
    bool has_matrix(const std::string& linear) const override;
    bool are_equal(const std::string& a, const std::string& b) const override;
    void name_part(const std::string& name, const StoredPart& part) override;
    std::string place_of(const std::string& name) const override {
        return checkpoint_.file_of(name);
    }
    void pass_over(const std::string& linear) override;
    std::vector<std::string> unread() const override;
    // The tensor or named part, as it is stored; empty when there is none. Throws bad_data for a
    // part whose tensor does not hold it.
    std::optional<Tensor> tensor(const std::string& name) const;
    const NamedParts& parts() const { return parts_; }
    // Of values that were read, or lie where the model reads them: of a slice those of the slice.
    uint64_t read_bytes() const { return read_bytes_; }
    // Names of tensors that were read, ascending.
    std::vector<std::string> read_names() const { return {read_names_.begin(), read_names_.end()}; }
    bool has_values() const override { return use_ == CheckpointUse::values; }

    const Checkpoint& checkpoint() const { return checkpoint_; }

  private:
    Tensor find(const std::string& name, const std::string& expected) const;
    // `is_stored`: release_stored() gives its pages back.
    Tensor keep(const std::string& name, const Tensor& found, bool is_stored);

    Checkpoint checkpoint_;
    CheckpointUse use_;
    std::vector<std::span<const std::byte>> stored_;  // as read_stored() gave them, in files
    std::set<std::string, std::less<>> read_names_;
    uint64_t read_bytes_ = 0;
    NamedParts parts_;
};

}  // namespace nvllm
