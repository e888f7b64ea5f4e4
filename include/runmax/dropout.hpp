// Which weights dropout keeps: a pure function of (seed, offset, batch, head, query, key), the same on every
// device, for any tile size, forward and backward.
//
// The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3" (SC 2011), doi 10.1145/2063384.2063405: a keyed bijection of 128-bit counters. The first application
// turns seed, offset, batch element and query head into a key of their own; the second, under that key, turns
// the query and a block of four keys into four words, one for each key.
//
// C++17, host and device, freestanding: no allocation, no I/O.
#ifndef RUNMAX_DROPOUT_HPP
#define RUNMAX_DROPOUT_HPP

#include <cstdint>

#ifndef RUNMAX_HOST_DEVICE
#if defined(__CUDACC__)
#define RUNMAX_HOST_DEVICE __host__ __device__
#else
#define RUNMAX_HOST_DEVICE
#endif
#endif

namespace runmax {

struct PhiloxKey {
  std::uint32_t word[2] = {0, 0};
};

struct PhiloxCounter {
  std::uint32_t word[4] = {0, 0, 0, 0};
};

// Philox4x32-10.
RUNMAX_HOST_DEVICE constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {
        {static_cast<std::uint32_t>(b >> 32) ^ counter.word[1] ^ key.word[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ counter.word[3] ^ key.word[1], static_cast<std::uint32_t>(a)}};
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  return counter;
}

// The key of one head. Batch elements and heads count modulo 2^32.
RUNMAX_HOST_DEVICE constexpr PhiloxKey dropout_key(std::uint64_t seed, std::uint64_t offset,
                                                   std::int64_t batch, std::int64_t query_head) {
  const PhiloxCounter place{{static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
                             static_cast<std::uint32_t>(batch), static_cast<std::uint32_t>(query_head)}};
  const PhiloxKey of_seed{{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const PhiloxCounter words = philox(place, of_seed);
  return {{words.word[0], words.word[1]}};
}

// A weight is kept if its word is at least this: the probability of dropping it is `probability`, in [0, 1),
// rounded down to a multiple of 2^-32.
RUNMAX_HOST_DEVICE constexpr std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 4294967296.0);
}

// The counter of query `query` and keys 4 * block ... 4 * block + 3.
RUNMAX_HOST_DEVICE constexpr PhiloxCounter dropout_counter(std::int64_t query, std::int64_t block) {
  const auto row = static_cast<std::uint64_t>(query), keys = static_cast<std::uint64_t>(block);
  return {{static_cast<std::uint32_t>(keys), static_cast<std::uint32_t>(keys >> 32),
           static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32)}};
}

// True if the weight of `query` and `kv` (both counted from 0 in their sequence) is kept. It is then
// multiplied by 1 / (1 - probability).
RUNMAX_HOST_DEVICE constexpr bool dropout_keeps(PhiloxKey key, std::uint32_t threshold, std::int64_t query,
                                                std::int64_t kv) {
  return philox(dropout_counter(query, kv / 4), key).word[kv % 4] >= threshold;
}

}  // namespace runmax

#endif  // RUNMAX_DROPOUT_HPP
