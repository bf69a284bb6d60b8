// On which compute units workgroups run: over all dies and units, and with a stream's mask on those of its bits alone.
//   units            the default stream, and streams whose masks share no unit
//   units hangs N    a mask of N bits; the program waits for its stream
#include <cstdint>
#include <set>
#include <string>

#include "check.h"

constexpr int PER_UNIT = 4;
// HW_REG_HW_ID (4) and HW_REG_XCC_ID (20), 32 bits of each, as s_getreg names them.
constexpr int WHERE = 4 | 31 << 11, DIE = 20 | 31 << 11;

struct Seat {
    unsigned smid, hw_id, xcc;
};

__global__ void look(Seat* seats) {
    if (threadIdx.x == 0) {
#if defined(__gfx942__) || defined(__gfx950__)
        unsigned xcc = __builtin_amdgcn_s_getreg(DIE) & 15;
#else
        unsigned xcc = 0;
#endif
        seats[blockIdx.x] = {__smid(), (unsigned)__builtin_amdgcn_s_getreg(WHERE), xcc};
    }
}

// The compute unit: die, shader engine, number. Bits of HW_ID by HIP's amd_device_functions.h.
static unsigned unit(const Seat& seat) { return seat.xcc << 16 | (seat.hw_id & 0xff00); }

static std::vector<Seat> run(hipStream_t stream, int groups) {
    Array<Seat> seats(groups);
    look<<<groups, 64, 0, stream>>>(seats);
    CHECK(hipStreamSynchronize(stream));
    return seats.host();
}

// A stream whose kernels run on the units of these bits.
static hipStream_t masked(const std::vector<uint32_t>& mask) {
    hipStream_t stream;
    CHECK(hipExtStreamCreateWithCUMask(&stream, mask.size(), mask.data()));
    std::vector<uint32_t> told(mask.size());
    CHECK(hipExtStreamGetCUMask(stream, told.size(), told.data()));
    EXPECT(told == mask, "the stream tells another mask: %08x, not %08x", told[0], mask[0]);
    return stream;
}

static std::set<unsigned> units(const std::vector<Seat>& seats) {
    std::set<unsigned> all;
    for (const Seat& seat : seats) all.insert(unit(seat));
    return all;
}

int main(int argc, char** argv) {
    hipDeviceProp_t properties;
    CHECK(hipGetDeviceProperties(&properties, 0));
    const int count = properties.multiProcessorCount;
    if (argc > 2 && std::string(argv[1]) == "hangs") {
        uint32_t mask = (1u << std::atoi(argv[2])) - 1;
        hipStream_t stream;
        CHECK(hipExtStreamCreateWithCUMask(&stream, 1, &mask));
        std::printf("waiting\n");
        std::fflush(stdout);
        run(stream, 64);
        std::printf("PASS\n");
        return 0;
    }

    std::vector<Seat> seats = run(nullptr, PER_UNIT * count);
    std::set<unsigned> dies, simds, first;
    for (const Seat& seat : seats) dies.insert(seat.xcc);
    // Each die takes every n-th workgroup.
    for (size_t n = 0; n < seats.size(); n++) {
        EXPECT(seats[n].xcc == seats[n % dies.size()].xcc, "workgroup %zu is on die %u", n, seats[n].xcc);
        if (n < dies.size()) first.insert(seats[n].xcc);
    }
    EXPECT(first == dies, "%zu dies, of which the first workgroups are on %zu", dies.size(), first.size());
    const std::set<unsigned> all = units(seats);
    EXPECT((int)all.size() == count, "%zu units of %d run %d workgroups", all.size(), count, PER_UNIT * count);
    std::set<unsigned> smids;
    for (const Seat& seat : seats) smids.insert(seat.smid);
#if HIP_VERSION_MAJOR > 5
    EXPECT((int)smids.size() == count, "%zu numbers by __smid of %d units", smids.size(), count);
#endif
    std::printf("%d units on %zu dies, from die %u\n", count, dies.size(), *dies.begin());

    // Two masks that share no bit, of all dies: bits of a die are as many apart as there are dies.
    if (count >= 2 * (int)dies.size()) {
        std::vector<uint32_t> masks[2];
        std::set<unsigned> seen[2];
        for (int half = 0; half < 2; half++) {
            masks[half].resize((count + 31) / 32);
            for (int bit = 0; bit < count; bit++) {
                if (bit / (int)dies.size() % 2 == half) masks[half][bit / 32] |= 1u << bit % 32;
            }
            hipStream_t stream = masked(masks[half]);
            seen[half] = units(run(stream, PER_UNIT * count));
            int bits = 0;
            for (uint32_t word : masks[half]) bits += __builtin_popcount(word);
            EXPECT((int)seen[half].size() == bits, "%zu units run workgroups with %d bits", seen[half].size(), bits);
            CHECK(hipStreamDestroy(stream));
        }
        for (unsigned unit : seen[0]) EXPECT(!seen[1].count(unit), "unit %#x is in both masks", unit);
        EXPECT(seen[0].size() + seen[1].size() == all.size(), "the halves are not all");
        std::printf("masks of %zu and %zu units\n", seen[0].size(), seen[1].size());
    }

    // One unit of each die: the first or the last one, which run all workgroups of their die.
    std::set<unsigned> alone[2];
    for (int last = 0; last < 2; last++) {
        std::vector<uint32_t> mask((count + 31) / 32);
        const int first_bit = last ? count - (int)dies.size() : 0;
        for (int bit = first_bit; bit < first_bit + (int)dies.size(); bit++) mask[bit / 32] |= 1u << bit % 32;
        hipStream_t stream = masked(mask);
        std::vector<Seat> seats = run(stream, PER_UNIT * count);
        std::set<unsigned> of_dies;
        for (const Seat& seat : seats) of_dies.insert(seat.xcc);
        alone[last] = units(seats);
        EXPECT(of_dies == dies && alone[last].size() == dies.size(), "%zu units of %zu dies run workgroups, expected one of each of %zu",
               alone[last].size(), of_dies.size(), dies.size());
        CHECK(hipStreamDestroy(stream));
    }
    EXPECT(count == (int)dies.size() || alone[0] != alone[1], "the last units are the first ones");
    std::printf("PASS\n");
}
