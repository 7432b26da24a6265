// The part of Lit that the console uses, for checking types; written by hand, see scripts/vendor for the module itself.
export interface Controller {
  hostConnected?(): void;
  hostDisconnected?(): void;
}
export class LitElement extends HTMLElement {
  static properties: Record<string, object>;
  readonly updateComplete: Promise<boolean>;
  addController(controller: object): void;
  requestUpdate(): void;
  connectedCallback(): void;
  disconnectedCallback(): void;
  protected createRenderRoot(): HTMLElement | DocumentFragment;
  protected willUpdate(changed: Map<string, unknown>): void;
  protected firstUpdated(changed: Map<string, unknown>): void;
  protected updated(changed: Map<string, unknown>): void;
  protected render(): unknown;
}
export function html(strings: TemplateStringsArray, ...values: unknown[]): unknown;
export function svg(strings: TemplateStringsArray, ...values: unknown[]): unknown;
export const nothing: unique symbol;
export function repeat<T>(items: Iterable<T>, key: (item: T) => unknown, template: (item: T, index: number) => unknown): unknown;
export function ref(callback: (element: Element | undefined) => void): unknown;
