#version 450

// C = A B of float32 matrices whose extents are multiples of 64, as it is written by hand: a
// work-group does 64 x 64 elements, an invocation 4 x 4, and operands pass through shared memory 16
// at a time.

layout(local_size_x = 16, local_size_y = 16) in;
layout(std430, binding = 0) readonly buffer OfA { float a[]; };
layout(std430, binding = 1) readonly buffer OfB { float b[]; };
layout(std430, binding = 2) writeonly buffer OfC { float c[]; };
layout(push_constant) uniform Extents { uint n; };

const uint kTile = 64, kDepth = 16, kEach = 4;

shared float tile_a[kDepth][kTile];
shared float tile_b[kDepth][kTile];

void main() {
    const uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y, number = y * 16 + x;
    const uint row = gl_WorkGroupID.y * kTile, column = gl_WorkGroupID.x * kTile;
    float sum[kEach][kEach];
    for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) sum[i][j] = 0.0;
    }
    for (uint k = 0; k < n; k += kDepth) {
        for (uint part = 0; part < kEach; ++part) {
            const uint e = number + part * 256;
            tile_a[e % kDepth][e / kDepth] = a[(row + e / kDepth) * n + k + e % kDepth];
            tile_b[e / kTile][e % kTile] = b[(k + e / kTile) * n + column + e % kTile];
        }
        barrier();
        for (uint q = 0; q < kDepth; ++q) {
            float of_a[kEach], of_b[kEach];
            for (int i = 0; i < kEach; ++i) {
                of_a[i] = tile_a[q][y * kEach + i];
                of_b[i] = tile_b[q][x + 16 * i];
            }
            for (int i = 0; i < kEach; ++i) {
                for (int j = 0; j < kEach; ++j) sum[i][j] = fma(of_a[i], of_b[j], sum[i][j]);
            }
        }
        barrier();
    }
    for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) {
            c[(row + y * kEach + i) * n + column + x + 16 * j] = sum[i][j];
        }
    }
}
