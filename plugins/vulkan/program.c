#include "program.h"
clv_status vk_op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                      clv_op_caps *out, uint32_t stride)
{
    if (!clv_chain_known(graph))
        return clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED, "unknown extension");
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        clv_op_caps caps = {.answer = CLV_ANSWER_NO, .reason = "no kernels"};
        clv_write(clv_at(out, i, stride), &caps, sizeof caps);
    }
    return CLV_OK;
}
clv_status vk_program_compile(clv_plugin_device *dev, const clv_compile *compile,
                              clv_plugin_program **out)
{
    (void)compile; (void)out;
    clv_status status = vk_alive(dev);
    return status ? status : clv_fail(dev->base.host, CLV_ERR_UNSUPPORTED, "no kernels");
}
clv_status vk_program_info(clv_plugin_program *prog, clv_program_info *out)
{
    (void)prog; (void)out;
    return CLV_OK;
}
void vk_program_destroy(clv_plugin_program *prog) { (void)prog; }
clv_status vk_program_check(const clv_command *command) { (void)command; return CLV_ERR_INVALID; }
clv_status vk_program_commands(const clv_command *command, uint64_t value,
                               VkCommandBuffer *out,
                               char message[CLV_MESSAGE_SIZE])
{ (void)command; (void)value; (void)out; (void)message; return CLV_ERR_INTERNAL; }
