"""Resource types. The data of a resource and the text of its material come in; the text that the model sees goes out,
made by the type that the registry finds under the resource's alias."""
