import { Tide } from "./tide";
import fs from 'node:fs';

export interface Port { name: string }

export class Harbour {
  open(): void {}
}

export async function listen(port: number): Promise<void> {
}

export const close = async (why: string) => {
};
