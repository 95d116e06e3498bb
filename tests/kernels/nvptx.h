/* Built-in functions of OpenCL C for clang's NVPTX target, which has none: what
 * kernels call, so that their PTX can be assembled. */
#define BUILT_IN __attribute__((overloadable, always_inline))
#define SPECIAL(function, x, y, z)                                             \
    size_t BUILT_IN function(uint i)                                           \
    {                                                                          \
        return i == 0   ? (uint)__nvvm_read_ptx_sreg_##x()                     \
               : i == 1 ? (uint)__nvvm_read_ptx_sreg_##y()                     \
                        : (uint)__nvvm_read_ptx_sreg_##z();                    \
    }
SPECIAL(get_local_id, tid_x, tid_y, tid_z)
SPECIAL(get_local_size, ntid_x, ntid_y, ntid_z)
SPECIAL(get_group_id, ctaid_x, ctaid_y, ctaid_z)
SPECIAL(get_num_groups, nctaid_x, nctaid_y, nctaid_z)
size_t BUILT_IN get_global_id(uint i)
{
    return get_group_id(i) * get_local_size(i) + get_local_id(i);
}
void BUILT_IN barrier(cl_mem_fence_flags flags)
{
    __syncthreads();
}
#define MIN_MAX(type)                                                          \
    type BUILT_IN min(type a, type b)                                          \
    {                                                                          \
        return b < a ? b : a;                                                  \
    }                                                                          \
    type BUILT_IN max(type a, type b)                                          \
    {                                                                          \
        return a < b ? b : a;                                                  \
    }
MIN_MAX(int)
MIN_MAX(uint)
MIN_MAX(float)
float BUILT_IN fma(float a, float b, float c)
{
    return __nvvm_fma_rn_f(a, b, c);
}
float2 BUILT_IN fma(float2 a, float2 b, float2 c)
{
    return (float2)(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y));
}
float4 BUILT_IN fma(float4 a, float4 b, float4 c)
{
    return (float4)(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z),
                    fma(a.w, b.w, c.w));
}
float BUILT_IN floor(float x)
{
    return __nvvm_floor_f(x);
}
float BUILT_IN fabs(float x)
{
    return __nvvm_fabs_f(x);
}
float BUILT_IN sqrt(float x)
{
    return __nvvm_sqrt_rn_f(x);
}
float BUILT_IN exp(float x)
{
    return __nvvm_ex2_approx_f(x * 1.44269504f);
}
float BUILT_IN tanh(float x)
{
    return 1.0f - 2.0f / (1.0f + exp(2.0f * x));
}
float4 BUILT_IN convert_float4(char4 v)
{
    return (float4)(v.x, v.y, v.z, v.w);
}
float4 BUILT_IN convert_float4(uchar4 v)
{
    return (float4)(v.x, v.y, v.z, v.w);
}
float BUILT_IN half_float(const half *h)
{
    float f;
    ushort bits = *(const ushort *)h;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
}
float4 BUILT_IN vload4(size_t i, __global const float *f)
{
    f += 4 * i;
    return (float4)(f[0], f[1], f[2], f[3]);
}
float4 BUILT_IN vload_half4(size_t i, const half *h)
{
    h += 4 * i;
    return (float4)(half_float(h), half_float(h + 1), half_float(h + 2),
                    half_float(h + 3));
}
int BUILT_IN atomic_add(volatile __local int *at, int n)
{
    return __sync_fetch_and_add(at, n);
}
