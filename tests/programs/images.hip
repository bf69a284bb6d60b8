// What a device without image instructions says of them; textures are refused by a status.
#include "check.h"

int main(int, char**) {
    int images = -1, warp = 0;
    CHECK(hipDeviceGetAttribute(&images, hipDeviceAttributeImageSupport, 0));
    std::printf("image support %d\n", images);
    // What is asked for beside is answered as ever.
    CHECK(hipDeviceGetAttribute(&warp, hipDeviceAttributeWarpSize, 0));
    EXPECT(warp == 64, "a wave has %d lanes", warp);

    Array<float> memory(256);
    hipResourceDesc resource = {};
    resource.resType = hipResourceTypeLinear;
    resource.res.linear.devPtr = static_cast<float*>(memory);
    resource.res.linear.desc = hipCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = 256 * sizeof(float);
    hipTextureDesc texture = {};
    texture.readMode = hipReadModeElementType;
    hipTextureObject_t object = {};
    hipError_t status = hipCreateTextureObject(&object, &resource, &texture, nullptr);
    EXPECT(status != hipSuccess, "a texture was made");
    std::printf("a texture: %s\n", hipGetErrorName(status));
    std::printf("PASS\n");
    return 0;
}
