// An adapter's folder with what a test puts into it.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lib/checkpoint/safetensors.h"
#include "lib/tensor/tensor.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm::test {

class WrittenAdapter {
  public:
    // `keys`: of the config, beside its kind and its rank.
    explicit WrittenAdapter(int rank, const std::string& keys = "") {
        std::ofstream(folder_.path() / "adapter_config.json")
            << R"({"peft_type": "LORA", "r": )" << rank << R"(, "lora_alpha": 8)"
            << (keys.empty() ? "" : ", " + keys) << "}";
    }

    // The name is that of the file.
    void add(const std::string& name, std::initializer_list<int64_t> shape, float first = 1.0f) {
        Tensor tensor = Tensor::allocate(DType::f32, shape);
        auto* const values = tensor.mutable_view().as<float>();
        for (int64_t i = 0; i < tensor.view().numel(); ++i) {
            values[i] = first + static_cast<float>(i);
        }
        tensors_[name] = tensor;
    }
    // Both matrices of a module: A counts from 1, B from 100.
    void add_module(const std::string& name, int64_t rank, int64_t in, int64_t out) {
        add("base_model.model." + name + ".lora_A.weight", {rank, in});
        add("base_model.model." + name + ".lora_B.weight", {out, rank}, 100.0f);
    }
    // The folder, with all that was added.
    std::string written() {
        std::vector<TensorToWrite> all;
        for (const auto& [name, tensor] : tensors_) all.push_back({name, tensor.view()});
        write_safetensors(folder_.path() / "adapter_model.safetensors", all);
        return folder_.path().string();
    }

  private:
    TemporaryFolder folder_;
    std::map<std::string, Tensor> tensors_;
};

}  // namespace nvllm::test
