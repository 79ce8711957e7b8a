"""Random weights for detectors under which boxes have different scores, as trained ones have: with those that torchvision draws, all boxes
get nearly the same one, and any order of additions decides which of them are chosen."""

SPREAD = 2.0  # standard deviation of logits


def heads(model):
    """The last layers, that give logits and the places of boxes."""
    found = []
    for name, module in model.named_modules():
        last = name.rsplit(".", 1)[-1]
        if last in ("cls_logits", "cls_score", "bbox_reg", "bbox_pred", "bbox_ctrness"):
            found.append((name, module))
        elif last == "module_list":  # SSD's
            found += [(f"{name}.{i}", child if hasattr(child, "weight") else child[-1]) for i, child in enumerate(module)]
    return found


def normalize(model, image):
    """Sets the statistics of normalizations to those of an image: deep backbones would scale what differs within it to nothing."""
    import torch

    def set_statistics(module, inputs):
        x = inputs[0]
        axes = [axis for axis in range(x.dim()) if axis != 1]
        if x.numel() > x.shape[1]:  # of one position there are none
            spread_of_channels = x.var(axes, correction=0)
            module.running_mean.copy_(x.mean(axes))
            # Channels that are nearly constant here need not be so in another image.
            module.running_var.copy_(spread_of_channels.clamp(min=float(0.1 * spread_of_channels.mean())))

    hooks = [module.register_forward_pre_hook(set_statistics) for module in model.modules() if hasattr(module, "running_var")]
    with torch.no_grad():
        model([image])
    for hook in hooks:
        hook.remove()


def spread(model, image, of_logits=SPREAD):
    """Scales the last layers until their results have a spread that trained ones have, too."""
    import torch

    normalize(model, image)
    with torch.no_grad():
        for name, module in heads(model):
            seen = []
            hook = module.register_forward_hook(lambda module, inputs, result, seen=seen: seen.append(result))
            model([image])
            hook.remove()
            is_box = "bbox_reg" in name or "bbox_pred" in name or "regression" in name
            # Over positions or boxes, not over classes, which differ by their biases.
            rows = torch.cat([result.movedim(1, -1).flatten(0, -2) for result in seen])
            factor = (0.2 if is_box else of_logits) / float(rows.std(0).mean().clamp(min=1e-6))
            module.weight.mul_(factor)
            if module.bias is not None and not is_box:
                module.bias.normal_(0.0, of_logits / 4)
