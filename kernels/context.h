// What every op is handed: the device it runs on, its threads, its scratch memory.
//
// Activations, the values that ops read and write from token to token, are float32 on the CPU. On
// other devices they are float32, bfloat16 or float16: all of a call alike unless its contract says
// otherwise, computed in float32 and rounded at the end.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/page_memory.h"
#include "kernels/types.h"

namespace nvllm {

class RankGroup;
struct PipelineLink;
class ThreadPool;
struct BackendTable;

// Bump allocator for temporaries of one op or one step, in memory of a device. reset() frees
// everything at once. Memory is reserved up front; if a caller needs more than was reserved the
// arena grows once, keeps the larger size, and counts it, so that tests can assert that no step
// allocates. Not thread-safe: ops take scratch before they go parallel.
class ScratchArena {
  public:
    explicit ScratchArena(size_t reserved_bytes = 0, const ComputeDevice& device = {});
    // An arena that counts and has no memory (kernels/host/dry_run.h). What take() gives is aligned
    // and not null; who touches it ends the process.
    static ScratchArena of_dry_run();

    // `bytes` of memory aligned to 64, valid until the reset() or Scope end that follows.
    void* take(size_t bytes);
    template <typename T>
    T* take_array(size_t count) {
        return static_cast<T*>(take(count * sizeof(T)));
    }
    void reset();

    size_t reserved_bytes() const;
    size_t bytes_in_use() const;
    // Most bytes in use at one time since construction.
    size_t peak_bytes() const { return peak_bytes_; }
    // How often take() had to allocate since construction.
    size_t num_growths() const { return num_growths_; }
    bool is_of_dry_run() const { return is_of_dry_run_; }

    // Gives back on destruction all that was taken after its construction.
    class Scope {
      public:
        explicit Scope(ScratchArena& arena);
        ~Scope();
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        ScratchArena& arena_;
        size_t chunk_;
        size_t used_;
    };

  private:
    struct FreeDeleter {
        void operator()(std::byte* memory) const;
    };
    struct Chunk {
        std::byte* begin = nullptr;
        std::unique_ptr<std::byte[], FreeDeleter> small;  // one of these three
        PageMemory large;
        DeviceMemory of_device;
        size_t bytes = 0;
        size_t used = 0;
    };
    void add_chunk(size_t bytes);

    ComputeDevice device_;
    std::vector<Chunk> chunks_;
    size_t current_ = 0;
    size_t peak_bytes_ = 0;
    size_t num_growths_ = 0;
    bool is_of_dry_run_ = false;
};

struct LoraBatch;  // of models: lib/model/lora/lora_batch.h

struct Context {
    Device device;
    void* stream = nullptr;           // of the device; unused on the CPU
    ScratchArena* scratch = nullptr;  // never null; memory of the device
    ThreadPool* threads = nullptr;    // never null on the CPU
    // Whose device it is; null on the CPU.
    const BackendTable* backend = nullptr;
    // What layers take for temporaries: float32 on the CPU.
    DType activations = DType::f32;
    // Host memory beside a device's scratch; null on the CPU, where `scratch` is.
    ScratchArena* host_scratch = nullptr;
    // The adapters that rows of the step have; null: none has one.
    const LoraBatch* lora = nullptr;
    // The ranks that compute each layer together; null: this one alone.
    const RankGroup* tensor_ranks = nullptr;
    // The ranks that have a layer's experts among them, in their order; null: this one has all.
    const RankGroup* expert_ranks = nullptr;
    // From whom hidden states come and to whom they go; null: all blocks are here.
    const PipelineLink* pipeline = nullptr;

    // Whether nothing is computed and scratch is only counted: views have no memory then.
    bool is_dry_run() const { return scratch->is_of_dry_run(); }
};

// For whom a matrix is stored.
struct ComputeTarget {
    const BackendTable* backend = nullptr;  // null: the CPU
    DType activations = DType::f32;
};

}  // namespace nvllm
